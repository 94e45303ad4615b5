# tests of text
