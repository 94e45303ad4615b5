/* SPDX-License-Identifier: Apache-2.0
 * Chat templates.
 */
#include "lanes/text/private.h"

void text_template_open(struct lane_tokenizer *t) {
    t->shape = NULL;
}
