# Kernels for GPUs: the C half of each op is built everywhere, the .cu files only where nvcc is.
RH_CUDA_FILES = kernels/cuda/compare.cu
libkernels_a_SOURCES += kernels/cuda/call.h kernels/cuda/images.h \
	kernels/cuda/compare.h kernels/cuda/compare.c
EXTRA_DIST += $(RH_CUDA_FILES) kernels/cuda/README.md kernels/cuda/compile kernels/cuda/make_images
if CUDA
nodist_libkernels_a_SOURCES = kernels/cuda/images.c
else
libkernels_a_SOURCES += kernels/cuda/images_none.c
endif
RH_FATBINS = $(RH_CUDA_FILES:.cu=.fatbin)
RH_NVCC_FLAGS = -I$(srcdir) $(NVCCFLAGS)
rh_nvcc_v = $(rh_nvcc_v_@AM_V@)
rh_nvcc_v_ = $(rh_nvcc_v_@AM_DEFAULT_V@)
rh_nvcc_v_0 = @echo "  NVCC    " $@;
%.fatbin: %.cu kernels/cuda/compile kernels/cuda/toolchain
	$(rh_nvcc_v)$(srcdir)/kernels/cuda/compile '$(NVCC)' '$(CUDA_ARCHS)' '$(RH_NVCC_FLAGS)' $< $@
kernels/cuda/images.c: $(RH_FATBINS) kernels/cuda/make_images Makefile
	$(AM_V_GEN)$(srcdir)/kernels/cuda/make_images $(CUDA_TOOLKIT) $(RH_FATBINS) >$@.new && mv -f $@.new $@
-include $(RH_FATBINS:.fatbin=.d)
CLEANFILES += $(RH_FATBINS) $(RH_FATBINS:.fatbin=.d) $(RH_FATBINS:.fatbin=.archs) kernels/cuda/images.c
DISTCLEANFILES = kernels/cuda/toolchain
# .incbin is invisible to dependency tracking.
kernels/cuda/libkernels_a-images.$(OBJEXT) kernels/cuda/images.$(OBJEXT): kernels/cuda/images.c
