"""The composition of the application: server, storage, server launch and discovery, clients, doctor."""
