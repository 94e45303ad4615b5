noinst_LIBRARIES += libsessions.a
libsessions_a_SOURCES = 
