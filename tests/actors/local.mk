# tests of actors
