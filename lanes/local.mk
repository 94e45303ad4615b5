noinst_LIBRARIES += liblanes.a
liblanes_a_SOURCES = 
