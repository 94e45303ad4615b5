# tests of lanes
