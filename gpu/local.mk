noinst_LIBRARIES += libgpu.a
libgpu_a_SOURCES = gpu/plan.h gpu/plan.c gpu/device.h gpu/protocol.h gpu/rank.h gpu/rank.c \
	gpu/device_fake.c
EXTRA_DIST += gpu/README.md
