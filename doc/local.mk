# SPDX-License-Identifier: Apache-2.0
# Everything in doc/ is installed; the manual page goes where man looks.
dist_man_MANS = doc/roundhouse.1
dist_doc_DATA = README.md doc/design.md kernels/numerics.md doc/protocol.md doc/performance.md doc/facts.md doc/gpu.md
EXTRA_DIST += doc/README.md doc/make_man doc/receipts
