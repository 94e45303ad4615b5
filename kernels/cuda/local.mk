# Kernels for GPUs: the C half of each op is built everywhere, the .cu files only where nvcc is.
RH_CUDA_FILES = kernels/cuda/compare.cu
RH_CUDA_FILES += kernels/cuda/rows_bf16.cu kernels/cuda/product_bf16.cu kernels/cuda/product_bf16_few_sm90a.cu \
	kernels/cuda/product_bf16_stream_sm90a.cu kernels/cuda/product_bf16_many_sm90a.cu kernels/cuda/oracle_bf16.cu \
	kernels/cuda/attend_bf16_narrow.cu kernels/cuda/attend_bf16_wide.cu \
	kernels/cuda/attend_bf16_narrow_sm90a.cu kernels/cuda/attend_bf16_wide_sm90a.cu
libkernels_a_SOURCES += kernels/cuda/call.h kernels/cuda/images.h \
	kernels/cuda/compare.h kernels/cuda/compare.c
libkernels_a_SOURCES += kernels/cuda/bf16_tile.h kernels/cuda/rows_bf16.h kernels/cuda/rows_bf16.c \
	kernels/cuda/product_bf16.h kernels/cuda/product_bf16.c kernels/cuda/oracle_bf16.h kernels/cuda/oracle_bf16.c \
	kernels/cuda/attend_bf16.h kernels/cuda/attend_bf16.c
EXTRA_DIST += kernels/cuda/generic_bf16.cuh kernels/cuda/tensor.cuh kernels/cuda/finish_bf16.cuh kernels/cuda/hopper.cuh kernels/cuda/ring.cuh kernels/cuda/wgmma.cuh kernels/cuda/attend_bf16.cuh \
	kernels/cuda/attend_narrow.cuh kernels/cuda/attend_wide.cuh
RH_CUDA_FILES += kernels/cuda/blocks.cu kernels/cuda/product_blocks_q4_sm90a.cu kernels/cuda/product_blocks_q5_sm90a.cu \
	kernels/cuda/product_blocks_q8_sm90a.cu
libkernels_a_SOURCES += kernels/cuda/block_unit.h kernels/cuda/block_math.h kernels/cuda/block_value.h kernels/cuda/block_file.h kernels/cuda/block_pack.h \
	kernels/cuda/product_blocks.h kernels/cuda/product_blocks.c
EXTRA_DIST += kernels/cuda/product_blocks_sm90a.cuh
RH_CUDA_FILES += kernels/cuda/embed.cu kernels/cuda/norm.cu kernels/cuda/product.cu kernels/cuda/pages.cu kernels/cuda/attend.cu \
	kernels/cuda/experts.cu kernels/cuda/experts_bf16.cu kernels/cuda/gate.cu kernels/cuda/sum.cu kernels/cuda/final.cu kernels/cuda/draw.cu \
	kernels/cuda/fill.cu kernels/cuda/rate_sm90a.cu
libkernels_a_SOURCES += kernels/cuda/experts.h kernels/cuda/experts.c kernels/cuda/step.h kernels/cuda/device.h kernels/cuda/chain.h kernels/cuda/hash_device.h \
	kernels/cuda/embed.h kernels/cuda/embed.c kernels/cuda/norm.h kernels/cuda/norm.c \
	kernels/cuda/product.h kernels/cuda/product.c kernels/cuda/pages.h kernels/cuda/pages.c \
	kernels/cuda/attend.h kernels/cuda/attend.c kernels/cuda/gate.h kernels/cuda/gate.c \
	kernels/cuda/sum.h kernels/cuda/sum.c kernels/cuda/final.h kernels/cuda/final.c kernels/cuda/draw.h kernels/cuda/draw.c \
	kernels/cuda/fill.h kernels/cuda/fill.c kernels/cuda/rate.h kernels/cuda/rate.c
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
