liblanes_a_SOURCES += lanes/text/added.c lanes/text/added_load.c lanes/text/bpe.c lanes/text/chars.c \
	lanes/text/chars_load.c \
	lanes/text/encode.h lanes/text/jinja.c lanes/text/jinja.h lanes/text/load.h lanes/text/pattern.c lanes/text/pipeline.c \
	lanes/text/private.h lanes/text/split.c lanes/text/stream.c lanes/text/stream.h \
	lanes/text/tables.c lanes/text/tables.h \
	lanes/text/template.c lanes/text/template_shapes.def lanes/text/tokenizer.c \
	lanes/text/tokenizer.h lanes/text/tokenizer_load.c lanes/text/unigram.c lanes/text/utf8.h
EXTRA_DIST += lanes/text/README.md
