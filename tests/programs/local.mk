# tests of programs
