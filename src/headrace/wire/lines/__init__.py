"""The lines protocol: UTF-8 lines ended by LF, commands in, replies and messages out. Door and client share it."""
