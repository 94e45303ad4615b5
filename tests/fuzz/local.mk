# tests of fuzz
