# tests of sessions
