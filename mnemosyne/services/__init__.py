"""What can be done with an open log, one async function a use case: values in, values out.

Nothing here prints, parses a command line or opens a database. A service takes the ports that it needs: the log
(`sessions.Archive`), read models (`read_models.ReadModels`), an index of objects (`search.Index`), the database's files
(`footprints.Disk`). The command line renders what it returns; whatever else shows the same calls the same functions. It
works beside a running server or without one, and none of it is on the path of a request.

=====================  ==================================================================================
sessions               find, read_history: which session is meant, and what is in it
session_list           list_sessions: all of them, at a glance
contexts               rebuild_turn, read_context, compare_turns: a window at a turn, proven, and what changed
verifying              verify_sessions: rebuild every turn against its hash
windows                list_objects, list_with_plan, explain: what a branch remembers, and what would be planned
memories               find, decide, read_texts: an object of a session, and what a person decides about it
pins, switching        pin, unpin; switch_session, switch_all: what has to stay, and whether to manage at all
search                 search, search_sessions: what sessions remember about a question
asking                 ask: a question answered from what a session remembers, as the model is answered
timeline, usage        read_timeline, read_usage: what happened, what was used
savings, reports       read_savings, read_report: what managing saved or cost, in all and over one session
footprints             measure: what is stored
forgetting             forget_all, choose_old, clean: the end of what is stored
exporting              write_session, import_file; the file is that of export_format
conversations          an exported session as the conversations that an evaluation reads
conversation_files     conversations and queries from a stranger's file
charts                 numbers as SVG
=====================  ==================================================================================
"""
