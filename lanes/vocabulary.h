/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer of a model, whatever files the model lies in: tokenizer.json in a directory, or the
 * metadata of a GGUF file.
 */
#ifndef LANES_VOCABULARY_H
#define LANES_VOCABULARY_H

#include "lanes/text/tokenizer.h"

/* NOT_FOUND: the model has none. */
enum status lane_vocabulary_open(const char *model_path, struct lane_tokenizer **out,
                                 struct status_note *note);

#endif
