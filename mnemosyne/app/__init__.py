"""The application put together: server, storage, launch and discovery of servers, clients, doctor."""
