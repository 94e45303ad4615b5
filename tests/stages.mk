# SPDX-License-Identifier: Apache-2.0
# The stages of tests/run as targets of one make, whose job server shares the cores among all of them: where one stage
# waits for its last test or works alone, another goes on. A stage that failed says so in its counts, not by its status.
.PHONY: $(MAKECMDGOALS)
$(MAKECMDGOALS):
	+@tests/run --stage $@
# Plants into the build that check made; reads the commands that clang compiled with.
ifneq ($(filter check,$(MAKECMDGOALS)),)
planted: check
endif
ifneq ($(filter address,$(MAKECMDGOALS)),)
clang_tidy: address
endif
