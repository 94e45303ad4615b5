noinst_LIBRARIES += libgpu.a
libgpu_a_SOURCES = gpu/plan.h gpu/plan.c gpu/round.h gpu/round.c gpu/device.h gpu/exchange.h gpu/protocol.h gpu/pace.h gpu/pace.c gpu/rank.h gpu/rank.c \
	gpu/device.c gpu/device_fake.c gpu/team.h gpu/team.c gpu/shard.h gpu/shard.c gpu/cpu.h gpu/device_cpu.h \
	gpu/device_cpu.c gpu/pack_cpu.c gpu/step_cpu.c gpu/experts_cpu.h gpu/experts_cpu.c
# GPUs: the driver found at run time, and what stands on it.
libgpu_a_SOURCES += gpu/driver.h gpu/driver.def gpu/driver_results.def gpu/driver.c gpu/fault.h gpu/fault.c \
	gpu/launch.h gpu/launch.c gpu/driver_fake.h gpu/driver_fake_state.h gpu/driver_fake.c \
	gpu/driver_fake_memory.c gpu/driver_fake_streams.c \
	gpu/fence.h gpu/fence.c gpu/arena.h gpu/arena_state.h gpu/arena.c gpu/arena_chunks.c gpu/lease.h gpu/lease.c \
	gpu/graph.h gpu/graph.c gpu/graphs.h gpu/graphs.c \
	gpu/perturb.h gpu/perturb.c \
	gpu/device_cuda.h gpu/cuda.h gpu/cuda_stage.h gpu/open_cuda.c gpu/device_cuda.c gpu/pages_cuda.h gpu/pages_cuda.c gpu/pack_cuda.h \
	gpu/pack_cuda.c gpu/pack_bf16_cuda.c gpu/blocks_cuda.h gpu/blocks_cuda.c gpu/image_cuda.c gpu/step_cuda.c gpu/perturb_cuda.c gpu/experts_cuda.h gpu/experts_cuda.c gpu/selftest_cuda.h \
	gpu/selftest_cuda.c gpu/graphs_cuda.c gpu/graphs_cuda.h gpu/exchange_cuda.h gpu/exchange_cuda.c \
	gpu/rates.h gpu/rates_cuda.c gpu/copies.h gpu/copies.c
EXTRA_DIST += gpu/README.md
