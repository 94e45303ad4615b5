# SPDX-License-Identifier: Apache-2.0
# The model that ships: installed beside the program with its card and the script that trained it.
fabledir = $(pkgdatadir)/fable-5m
dist_fable_DATA = \
	share/fable-5m/MODEL_CARD.md \
	share/fable-5m/config.json \
	share/fable-5m/generation_config.json \
	share/fable-5m/model.safetensors \
	share/fable-5m/sources.json \
	share/fable-5m/tokenizer.json \
	share/fable-5m/tokenizer_config.json \
	share/fable-5m/train.py \
	share/fable-5m/train_log.jsonl
EXTRA_DIST += share/README.md
