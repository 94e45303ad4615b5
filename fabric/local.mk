noinst_LIBRARIES += libfabric.a
libfabric_a_SOURCES = 
