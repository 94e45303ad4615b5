# tests of fuzz
include $(srcdir)/tests/fuzz/model_files.mk
include $(srcdir)/tests/fuzz/text.mk
include $(srcdir)/tests/fuzz/protocol.mk
include $(srcdir)/tests/fuzz/gguf.mk
