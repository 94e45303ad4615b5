noinst_LIBRARIES += libgpu.a
libgpu_a_SOURCES = 
