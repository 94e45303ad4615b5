# tests of fuzz
include $(srcdir)/tests/fuzz/model_files.mk
