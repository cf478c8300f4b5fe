"""The demo: a managed session in a minute, by a scripted agent and a scripted provider around the real proxy."""
