# fuzz targets of model files
check_PROGRAMS += tests/fuzz/fuzz_safetensors tests/fuzz/fuzz_config
tests_fuzz_fuzz_safetensors_SOURCES = tests/fuzz/fuzz_safetensors.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_safetensors_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_config_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
EXTRA_DIST += tests/fuzz/corpus/safetensors tests/fuzz/corpus/config
