"""Modules without a test module of their own: where they are tested, and why there (`tests/test_house.py`)."""

from collections.abc import Mapping

ELSEWHERE: Mapping[str, tuple[str, str]] = {
    # The library
    "actors/test_plug_ins.py": ("a policy of one's own is made of what the library exports", "sdk/policies"),
    "sdk/test_session.py": (
        "a runtime and a turn in an agent's hands show in the session that they carry",
        "sdk/runtime app/turns app/deriving app/helping",
    ),
    "sdk/test_host_tools.py": (
        "what the tools of a host make shows in the session whose model finds it",
        "domain/segmentation/written services/host_tools",
    ),
    # The domain
    "domain/segmentation/test_segment.py": (
        "a rule shows in the objects that come of a conversation",
        "domain/segmentation/exchanges domain/segmentation/files"
        " domain/segmentation/references domain/segmentation/tools domain/objects/units",
    ),
    "domain/segmentation/test_laws.py": (
        "it is what one segmentation leaves for the next, and any cut must give the same objects",
        "domain/objects/segmentation_state",
    ),
    "domain/summaries/extractive/test_extractive.py": (
        "a way of cutting shows in what it leaves of a text",
        "domain/summaries/extractive/rendering domain/summaries/extractive/selecting domain/summaries/extractive/units"
        " domain/text/parts",
    ),
    "adapters/postgres/test_golden_events.py": (
        "events are data: what matters is that each is stored and read as it always was",
        "domain/objects/events domain/session/events domain/session/input_events domain/session/retired"
        " domain/session/ledger_events domain/session/round_events",
    ),
    "domain/session/test_decide.py": (
        "deciding and folding are one law: the state is the fold of what was decided",
        "domain/session/address domain/session/state",
    ),
    "cli/test_archive.py": (
        "that what lies in a file is read as before shows in commands, which read it from a real database",
        "services/archiving adapters/postgres/archive_files",
    ),
    "adapters/postgres/test_journal.py": ("a batch shows in what becomes of its appends", "adapters/postgres/batches"),
    "adapters/postgres/test_event_log.py": (
        "a port is what its adapters are tested against; the log in memory keeps the same contract",
        "domain/ports",
    ),
    "actors/test_owners.py": ("a hash counts where a request takes it", "domain/wire/submitted"),
    "domain/wire/test_dialects.py": (
        "one suite of laws holds for every dialect, for what it reads and for what it collects",
        "domain/wire/dialect domain/wire/messages domain/wire/chat domain/wire/responses domain/wire/fragments"
        " domain/wire/chat_reply domain/wire/responses_reply",
    ),
    "http/test_chat_rewriter.py": ("what is left out shows in what a client is sent", "http/chat_splicing"),
    "domain/wire/test_history.py": (
        "one suite of laws holds for what is written in every dialect",
        "domain/wire/messages_history domain/wire/flat_history",
    ),
    "adapters/test_upstream.py": ("a port is what its adapter is tested against", "domain/wire/exchange"),
    "adapters/helpers/test_helpers.py": (
        "a port is what its adapters are tested against, against one endpoint",
        "domain/helper/model domain/helper/background domain/helper/tasks "
        "adapters/helpers/endpoint adapters/helpers/anthropic",
    ),
    "http/test_summarized_epochs.py": ("an order counts by what a rewrite then shows", "domain/helper/ordering"),
    "cli/test_accounts.py": ("misses are a table of usage", "cli/cache_misses"),
    "domain/cost/test_cache_misses.py": ("a change is named with what it cost", "domain/cost/prompt_changes"),
    "domain/window/test_assembly.py": ("constants that say how an object is shown", "domain/objects/ids"),
    "http/test_epochs.py": ("what a planner is told is true of whole conversations only", "actors/epochs"),
    "services/test_verifying.py": ("a proof is a proof of what is stored", "domain/history/verification"),
    "domain/knowledge/test_knowledge_store.py": (
        "events are data: what matters is that each is stored and read as it always was",
        "domain/knowledge/events domain/knowledge/kinds",
    ),
    # Tasks that own state
    "actors/test_tools.py": ("what objects say is what is answered from them", "actors/texts"),
    "actors/test_managed_turns.py": ("one walk of a managed turn through an actor", "actors/rounds"),
    "services/test_manifests.py": (
        "where an object stands is told of a request and its log together",
        "domain/history/page_layout",
    ),
    "cli/test_sessions.py": ("a session is listed with branches and name", "cli/branches cli/session_edits"),
    "cli/test_ask.py": ("the answer shows in the output of the command", "app/asking"),
    "http/test_session_knowledge.py": ("what sessions get and give shows upstream", "actors/knowledge_source"),
    "cli/test_mcp.py": ("tools are tested with the official client, on a real log", "adapters/mcp_sdk app/agent_tools"),
    "app/test_door.py": (
        "certificates and threads show in what a client of the door can reach",
        "adapters/run_authority app/threads",
    ),
    "app/test_tracing.py": ("what is sent is what a collector takes", "adapters/otlp"),
    "app/test_server.py": (
        "servers restart with a directory, and with new ids and salts",
        "adapters/postgres/directory app/process",
    ),
    "http/test_predictions.py": (
        "a prediction is asked for, paid for and placed in a conversation",
        "actors/session_orders domain/window/predictions",
    ),
    "http/test_rereads.py": (
        "an object shown again stands in what goes upstream, and a reply's citations are checked against that",
        "actors/show_again services/citations",
    ),
    "http/test_cleanup_live.py": ("tags come in a stream and are obeyed behind it", "actors/cleanup http/tag_hiding"),
    # Outside
    "adapters/postgres/test_object_index.py": (
        "one index: its rows, its search and who fills it",
        "adapters/postgres/object_index_rows adapters/postgres/object_index_search adapters/postgres/object_indexer"
        " projections/object_index",
    ),
    "projections/test_postgres.py": (
        "the store of projections in PostgreSQL",
        "adapters/postgres/projection_store adapters/postgres/projection_tables projections/store",
    ),
    "projections/test_projector.py": (
        "tables and their fold show in what a projector keeps",
        "projections/catalog projections/projection projections/rebuilding",
    ),
    "http/test_relay.py": ("an app is tested by what passes through it", "http/turn_log"),
    "http/test_stream_rewriter.py": ("what dialects share shows in what one of them sends", "http/spliced_stream"),
    "http/test_splicing.py": ("the rules show in what a client of Messages is sent", "http/messages_splicing"),
    "http/test_spending_limits.py": ("a refusal is what a client is sent", "actors/spending_guard"),
    "http/test_managed_dialects.py": ("rounds are one reply to the client", "http/reply_rounds"),
    "http/test_reply_copy.py": ("encodings are undone where replies are read", "http/content_encoding zstd"),
    "http/inspector/test_pages.py": (
        "a page is its view, its template and who may see it, together",
        "http/inspector/object_pages http/inspector/log_pages http/inspector/session_pages http/inspector/page_context",
    ),
    "http/inspector/test_api.py": (
        "an operation is its path, its arguments, its answer and how it is described, together",
        "services/memory_operations app/learning",
    ),
    "services/test_views.py": (
        "views of one recorded session, which say the same of it",
        "services/session_view services/turn_view services/object_view services/overviews services/context_map"
        " services/status_line services/budgets adapters/postgres/bills projections/working_set",
    ),
    # Use cases and commands
    "test_config.py": ("the meaning of a value shows in its setting", "setting_values"),
    "services/test_exporting.py": ("the format is what comes back", "services/export_format"),
    "cli/test_search.py": ("a search is what is opened for it, and what it prints", "app/object_index app/read_models"),
    "test_log_commands.py": (
        "commands that read one stored session",
        "cli/checkpoint cli/context cli/du cli/forget cli/log_access cli/verify app/storage",
    ),
    "cli/test_commands.py": (
        "what all commands have in common",
        "cli/completion cli/config cli/group cli/serve errors",
    ),
    "cli/test_off.py": ("switching is a command", "cli/manage services/switching"),
    "cli/test_doctor.py": ("the checks, and how they are shown", "app/doctor"),
    "cli/test_objects.py": ("how objects are shown", "cli/explain cli/windows"),
    "cli/test_transfer.py": ("a backup is what comes back", "adapters/postgres/backup"),
    # The laboratory
    "lab/test_demo.py": (
        "a play is tested by playing it",
        "lab/cli/demo lab/demo/agent lab/demo/play lab/demo/stage lab/demo/witness",
    ),
    "lab/cli/test_evaluate.py": ("an evaluation from files to reports", "lab/evaluation/running lab/cli/judge"),
    "lab/evaluation/test_driver.py": (
        "data that the driver reads and fills",
        "lab/evaluation/policy lab/evaluation/trace",
    ),
    "lab/provider/test_rules.py": (
        "rules are told by the requests that they refuse",
        "lab/provider/reading lab/provider/models lab/provider/choosing",
    ),
    "lab/provider/test_server.py": (
        "a provider is tested by what it answers",
        "lab/provider/api_errors",
    ),
    "lab/provider/test_provider.py": ("scripts see the same in each dialect", "lab/provider/openai_messages"),
    "lab/provider/test_script.py": ("scripts are the largest values that it reads", "lab/strict"),
    "lab/provider/test_rules_responses.py": (
        "each dialect's rules have a test module",
        "lab/provider/rules_openai",
    ),
    "lab/provider/test_reply_responses.py": ("each dialect's replies have a test module", "lab/provider/reply_openai"),
}
"""By the test module: the reason, and the modules, each without ``.py``."""
