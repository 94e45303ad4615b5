# Row functions, draw, profiles, RoPE tables and the oracle.
libkernels_a_SOURCES += kernels/approx.c kernels/approx.h kernels/draw.c kernels/draw.h \
	kernels/oracle.h kernels/golden.def kernels/inline.h kernels/oracle.c kernels/oracle_draw.c kernels/oracle_rows.c \
	kernels/oracle_quant.c kernels/oracle_q8.c \
	kernels/oracle_rows.h kernels/philox.h \
	kernels/matmul.c kernels/matmul.h kernels/profile.c kernels/rope.c kernels/route.c kernels/rowfn.c kernels/selftest.c kernels/selftest.h \
	kernels/cpu/amx.c kernels/cpu/amx.h kernels/cpu/bf16.c kernels/cpu/bf16.h \
	kernels/cpu/bf16_selftest.c kernels/cpu/product_bf16.h kernels/cpu/product_close.h \
	kernels/oracle_bf16.c kernels/oracle_cuda.c kernels/step16.h kernels/step16.c kernels/cpu/attend.h kernels/cpu/attend_bf16.h kernels/cpu/attend_f32.h \
	kernels/cpu/cells.h kernels/cpu/cells_avx2.h kernels/cpu/cells_avx512.h \
	kernels/cpu/cells_plain.h kernels/cpu/cells_neon.h kernels/cpu/q8.h kernels/cpu/q8_dot_avx2.h kernels/cpu/q8_dot_neon.h \
	kernels/cpu/q8_dot_plain.h kernels/cpu/q8_dot_vnni.h kernels/cpu/q8_entries.h \
	kernels/cpu/q8_plain.c kernels/cpu/q8_round.h kernels/cpu/q8_round_avx512.h \
	kernels/cpu/q8_row.h kernels/cpu/q8_forms.c kernels/cpu/q8_selftest.c kernels/cpu/draw_passes.h kernels/cpu/isa_scalar.c \
	kernels/cpu/micro.h kernels/cpu/product.h kernels/cpu/rows.h kernels/cpu/table.h \
	kernels/cpu/tables.h kernels/cpu/vec.h kernels/cpu/vec_avx2.h kernels/cpu/vec_avx512.h \
	kernels/cpu/vec_neon.h kernels/cpu/vec_scalar.h
# One library an instruction set, each with its own flags; the table is chosen at run time.
if X86_64
noinst_LIBRARIES += libkernels_avx2.a libkernels_avx512.a libkernels_amx.a \
	libkernels_vnni.a
libkernels_avx2_a_SOURCES = kernels/cpu/isa_avx2.c kernels/cpu/q8_avx2.c
libkernels_avx2_a_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mf16c
libkernels_avx512_a_SOURCES = kernels/cpu/isa_avx512.c
libkernels_avx512_a_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mf16c \
	-mavx512f -mavx512bw -mavx512dq -mavx512vl
libkernels_amx_a_SOURCES = kernels/cpu/isa_amx.c kernels/cpu/q8_amx.c
libkernels_amx_a_CFLAGS = $(libkernels_avx512_a_CFLAGS) -mamx-tile -mamx-bf16 \
	-mamx-int8 -mavx512vnni
libkernels_vnni_a_SOURCES = kernels/cpu/q8_vnni.c
libkernels_vnni_a_CFLAGS = $(libkernels_avx512_a_CFLAGS) -mavx512vnni
# products of one profile end in the tables of another
RH_ISA_LIBS += libkernels_amx.a libkernels_vnni.a libkernels_avx2.a libkernels_avx512.a
endif
# Every aarch64 processor has NEON: no flags, no library of its own.
if AARCH64
libkernels_a_SOURCES += kernels/cpu/isa_neon.c
endif
