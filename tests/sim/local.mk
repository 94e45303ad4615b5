# tests of sim
