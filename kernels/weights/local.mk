# model files
libkernels_a_SOURCES += kernels/model.h kernels/profile.h kernels/rowfn.h kernels/oracle.h \
	kernels/weights/json.h kernels/weights/json.c kernels/weights/file.h kernels/weights/file.c \
	kernels/weights/safetensors.h kernels/weights/safetensors.c \
	kernels/weights/config_json.h kernels/weights/config_json.c \
	kernels/weights/fp8.h kernels/weights/fp8.c kernels/weights/shards.h kernels/weights/shards.c kernels/weights/store.h kernels/weights/store.c \
	kernels/weights/gguf.h kernels/weights/gguf.c kernels/weights/gguf_fields.c \
	kernels/weights/gguf_arch.h kernels/weights/gguf_arch.c \
	kernels/weights/gguf_model.h kernels/weights/gguf_config.c kernels/weights/gguf_model.c \
	kernels/weights/survey.h kernels/weights/survey.c kernels/weights/open.c kernels/weights/synthetic.c \
	kernels/fill.h kernels/weights/shapes.h kernels/weights/shapes.c kernels/weights/save.c \
	kernels/families/family.h kernels/families/registry.h kernels/families/family.c \
	kernels/families/expect.h kernels/families/expect.c \
	kernels/families/decoder.h kernels/families/decoder.c kernels/families/llama.c \
	kernels/families/gemma3.c kernels/families/mistral.c kernels/families/mixtral.c \
	kernels/families/qwen.c
