# tests of door
