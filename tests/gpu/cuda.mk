# The GPU's host side, over the fake driver.
check_PROGRAMS += tests/gpu/test_driver
tests_gpu_test_driver_SOURCES = tests/gpu/test_driver.c
tests_gpu_test_driver_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_H)
tests_gpu_test_driver_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_driver_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/gpu/test_driver_fake tests/gpu/test_launch
tests_gpu_test_driver_fake_SOURCES = tests/gpu/test_driver_fake.c tests/gpu/fake_rig.h
tests_gpu_test_driver_fake_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_driver_fake_LDADD = $(RH_TEST_LDADD)
tests_gpu_test_launch_SOURCES = tests/gpu/test_launch.c tests/gpu/fake_rig.h
tests_gpu_test_launch_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_launch_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/gpu/test_arena
tests_gpu_test_arena_SOURCES = tests/gpu/test_arena.c tests/gpu/fake_rig.h
tests_gpu_test_arena_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_arena_LDADD = $(RH_TEST_LDADD)
