noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES = kernels/model.h
include $(srcdir)/kernels/weights/local.mk
include $(srcdir)/kernels/cpu/local.mk
