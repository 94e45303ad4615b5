noinst_LIBRARIES += libsessions.a
libsessions_a_SOURCES = sessions/protocol.h sessions/memory.h sessions/private.h \
	sessions/pages.h sessions/pages.c sessions/evict.h sessions/evict.c \
	sessions/order.c sessions/trie.h sessions/trie.c sessions/heads.h sessions/heads.c \
	sessions/reason.h sessions/reason.c sessions/reserve.h sessions/reserve.c \
	sessions/book.h sessions/book.c sessions/tier.h sessions/record.h sessions/query.h sessions/catalog.h sessions/catalog.c sessions/export.h sessions/export.c sessions/carry.h sessions/carry.c sessions/tiers.h sessions/tiers.c sessions/parking.c sessions/audit.c sessions/memory.c \
	sessions/disk.h sessions/disk_plain.c sessions/disk_uring.c sessions/index.h sessions/index.c \
	sessions/space.h sessions/space.c sessions/store.h sessions/store_private.h sessions/store.c sessions/store_load.h sessions/store_load.c \
	sessions/store_open.c sessions/index_check.c sessions/guard.h sessions/guard.c sessions/heal.h sessions/heal.c sessions/rebuild.c sessions/compact.c sessions/fetch.c sessions/others.c \
	sessions/warm.h sessions/warm.c
EXTRA_DIST += sessions/README.md
