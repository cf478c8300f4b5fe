"""Use cases on an open log, one async function each: values in, values out.

Nothing here prints, parses a command line or opens a database. A service takes the ports that it needs: the log
(`sessions.Archive`), read models (`read_models.ReadModels`), an object index (`search.Index`), the database's files
(`footprints.Disk`). Commands, pages and tools call the same functions and render their results. Services work with or
without a running server, and none is on the path of a request.

=====================  ==================================================================================
sessions               find, read_history: find a session and read its history
session_list           list_sessions: all sessions
contexts               rebuild_turn, read_context, compare_turns: a window at a turn, proven, and its changes
verifying              verify_sessions: rebuild every turn against its hash
windows                list_objects, explain: a branch's objects, and the planner's preview
memories               find, decide, read_texts: an object of a session, and a person's decisions about it
pins, switching        pin, unpin; switch_session, switch_all: pins, and managing on or off
search                 search, search_sessions: the objects that match a question
asking                 ask: a question answered from a session's objects, as the model is answered
timeline, usage        read_timeline, read_usage: events and usage
savings                read_savings: savings and costs, in total and for one session
footprints             measure: stored sizes
forgetting             forget_all, choose_old, clean: deletion of content
exporting              write_session, import_file; the file format is export_format
conversation_files     conversations and queries from a foreign file
charts                 numbers as SVG
=====================  ==================================================================================
"""
