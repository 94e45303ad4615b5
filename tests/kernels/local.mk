# tests of kernels
include $(srcdir)/tests/kernels/weights.mk
include $(srcdir)/tests/kernels/rowfn.mk
include $(srcdir)/tests/kernels/gguf.mk
