# stored weight formats
libkernels_a_SOURCES += kernels/quant/quant.h kernels/quant/quant.c kernels/quant/q8.c \
	kernels/quant/q4.c kernels/quant/q5.c kernels/quant/kq.c kernels/quant/iq4.c \
	kernels/quant/cell.h kernels/quant/cell.c
