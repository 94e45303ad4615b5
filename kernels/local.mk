noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES =
include $(srcdir)/kernels/weights/local.mk
include $(srcdir)/kernels/quant/local.mk
include $(srcdir)/kernels/cpu/local.mk
include $(srcdir)/kernels/cuda/local.mk
