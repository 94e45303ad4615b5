liblanes_a_SOURCES += lanes/door/json_in.c lanes/door/json_in.h lanes/door/json_out.c \
	lanes/door/json_out.h lanes/door/wire.h lanes/door/wire_json.c lanes/door/events.c \
	lanes/door/events.h lanes/door/table.c lanes/door/table.h lanes/door/waits.c \
	lanes/door/waits.h lanes/door/desk.c lanes/door/desk.h lanes/door/desk_private.h \
	lanes/door/desk_engine.c lanes/door/desk_stored.c lanes/door/desk_reply.c lanes/door/listen.c lanes/door/listen.h \
	lanes/door/selfprobe.c lanes/door/selfprobe.h lanes/door/nng_door.c lanes/door/door.h \
	lanes/door/protocol.h lanes/door/client.c lanes/door/client.h \
	lanes/door/bounded_close.c lanes/door/bounded_close.h
EXTRA_DIST += lanes/door/README.md
