"""The proof for every field of every node type that runs: ``kind type field`` → a test that depends on it."""

from __future__ import annotations

from tests.effects.proofs import By

_AGGREGATE, _AGGREGATES = (
    "tests/connectors/postgres/aggregate/test_sink.py",
    "tests/connectors/postgres/aggregate/test_pipeline.py",
)
_EVOLUTION, _OPTIONS = (
    "tests/connectors/kafka/test_source_evolution.py",
    "tests/connectors/kafka/test_source_options.py",
)
_FILE, _HANDLER, _KEYS = (
    "tests/connectors/file/test_source.py",
    "tests/connectors/http/test_handler.py",
    "tests/pipeline/test_keys.py",
)
_GENERATE, _GENERATORS, _CHANGES = (
    "tests/connectors/generate/test_source.py",
    "tests/connectors/generate/test_generators.py",
    "tests/connectors/generate/test_changes.py",
)
_CLICKHOUSE_SOURCE = "tests/connectors/clickhouse/test_source.py"
_HYBRID, _HYBRID_OPTIONS = "tests/connectors/hybrid/test_source.py", "tests/connectors/hybrid/test_options.py"
_HANDOFF, _OFFSET_TABLE = (
    "tests/connectors/hybrid/test_handoff.py",
    "tests/connectors/hybrid/test_offset_table.py",
)
_CLICKHOUSE_SINK, _CLICKHOUSE_PIPELINE = (
    "tests/connectors/clickhouse/test_sink.py",
    "tests/connectors/clickhouse/test_pipeline.py",
)
_KAFKA_SINK, _POSTGRES = "tests/connectors/kafka/test_sink.py", "tests/connectors/postgres/test_sink.py"
_PRINT, _SCRIPT, _TABLES = (
    "tests/connectors/test_print.py",
    "tests/transforms/script/test_transform.py",
    "tests/connectors/postgres/test_dynamic_table.py",
)
_WEBHOOK, _KNOBS = "tests/connectors/http/test_webhook.py", "tests/effects/test_knobs.py"

#: fields that all nodes have in common, and what they do is the same everywhere
COMMON: dict[str, By] = {
    "type": By("tests/pipeline/test_bad_pipelines.py::test_bad_pipeline_is_explained"),
    "primary_key": By(f"{_KEYS}::test_missing_key_columns_are_named_with_those_there_are"),
    "telemetry": By(
        "tests/engine/dataflow/test_metrics.py::test_what_a_plugin_measures_carries_its_labels_and_those_of_the_file"
    ),
    "telemetry.labels": By(
        "tests/engine/dataflow/test_metrics.py::test_what_a_plugin_measures_carries_its_labels_and_those_of_the_file"
    ),
    "telemetry.event_time": By("tests/engine/dataflow/test_event_times.py::test_each_node_has_its_own_event_times"),
    "telemetry.event_time.column": By("tests/engine/dataflow/test_event_times.py::test_a_missing_column_only_warns"),
    "telemetry.event_time.unit": By(
        "tests/observe/test_event_times.py::test_the_watermark_is_the_latest_event_time_in_milliseconds"
    ),
    "from": By("tests/pipeline/test_bad_pipelines.py::test_bad_pipeline_is_explained"),
}
#: in front of every kind of node that runs in a lane
_BATCHES = By(f"{_KNOBS}::test_rows_are_collected_until_there_are_as_many_as_batch_size_says")
_INTERVAL = By(f"{_KNOBS}::test_rows_wait_no_longer_than_batch_flush_interval_says")
_INSTANCES = By(f"{_KNOBS}::test_a_node_runs_as_often_as_parallelism_says")

PROOFS: dict[str, By] = {
    "source file path": By(f"{_FILE}::test_no_matching_file"),
    "source file format": By(f"{_FILE}::test_json_lines_with_nested_values"),
    "source file mode": By(f"{_KNOBS}::test_a_folder_is_read_once_or_looked_into_every_poll_interval"),
    "source file mode.type": By(f"{_KNOBS}::test_a_folder_is_read_once_or_looked_into_every_poll_interval"),
    "source file mode.poll_interval": By(f"{_KNOBS}::test_a_folder_is_read_once_or_looked_into_every_poll_interval"),
    "source file parallelism": By(f"{_FILE}::test_parallelism_limits_the_files_read_concurrently"),
    "source clickhouse table_name": By(f"{_CLICKHOUSE_SOURCE}::test_a_table_of_another_database_is_read"),
    "source clickhouse filter": By(f"{_CLICKHOUSE_SOURCE}::test_a_filter_drops_rows"),
    "source clickhouse start_at": By(f"{_CLICKHOUSE_SOURCE}::test_start_at_is_the_first_value_of_the_first_key"),
    "source clickhouse columns": By(f"{_CLICKHOUSE_SOURCE}::test_columns_are_read_in_the_given_order"),
    "source generate columns": By(f"{_GENERATE}::test_columns_are_independent_of_each_other"),
    "source generate columns.generator": By(f"{_GENERATE}::test_rows_never_change_with_a_version"),
    "source generate columns.nulls": By(f"{_GENERATORS}::test_nulls_have_their_share"),
    "source generate columns.start": By(f"{_GENERATORS}::test_a_sequence_counts"),
    "source generate columns.step": By(f"{_GENERATORS}::test_a_sequence_counts"),
    "source generate columns.min": By(f"{_GENERATORS}::test_numbers_are_inside_their_range_and_have_its_type"),
    "source generate columns.max": By(f"{_GENERATORS}::test_numbers_are_inside_their_range_and_have_its_type"),
    "source generate columns.type": By(f"{_GENERATORS}::test_a_choice_has_the_type_of_its_values_or_another_one"),
    "source generate columns.values": By(f"{_GENERATORS}::test_a_choice_follows_its_weights"),
    "source generate columns.weights": By(f"{_GENERATORS}::test_a_choice_follows_its_weights"),
    "source generate columns.count": By(f"{_GENERATORS}::test_text_looks_like_what_it_is_called"),
    "source generate columns.pattern": By(f"{_GENERATORS}::test_a_pattern_keeps_what_is_no_placeholder"),
    "source generate rows_per_second": By(f"{_GENERATE}::test_a_slow_source_waits_between_rows"),
    "source generate count": By(f"{_GENERATE}::test_it_ends_after_its_count"),
    "source generate seed": By(f"{_GENERATE}::test_another_seed_gives_other_rows"),
    "source generate changes": By(f"{_CHANGES}::test_kinds_have_their_shares"),
    "source generate changes.updates": By(f"{_CHANGES}::test_kinds_have_their_shares"),
    "source generate changes.deletes": By(f"{_CHANGES}::test_kinds_have_their_shares"),
    "source generate changes.columns": By(f"{_CHANGES}::test_an_update_changes_the_named_columns_only"),
    "source hybrid errors": By(f"{_HYBRID}::test_messages_that_cannot_be_decoded_go_to_the_dead_letter_sink"),
    "source hybrid errors.to": By(f"{_HYBRID}::test_messages_that_cannot_be_decoded_go_to_the_dead_letter_sink"),
    "source hybrid bounded_sources": By(f"{_HYBRID}::test_the_phases_are_read_one_after_the_other"),
    "source hybrid bounded_sources.source_type": By(f"{_HYBRID_OPTIONS}::test_invalid_fields_are_named"),
    "source hybrid bounded_sources.table_name": By(f"{_HYBRID}::test_each_phase_has_its_own_filter"),
    "source hybrid bounded_sources.filter": By(f"{_HYBRID}::test_each_phase_has_its_own_filter"),
    "source hybrid bounded_sources.start_at": By(f"{_HYBRID}::test_a_phase_may_start_in_the_middle_of_its_table"),
    "source hybrid bounded_sources.columns": By(
        f"{_HYBRID_OPTIONS}::test_the_columns_of_a_table_have_no_effect_and_a_warning_says_so"
    ),
    "source hybrid unbounded_source": By(f"{_HYBRID}::test_each_phase_has_its_own_filter"),
    "source hybrid unbounded_source.source_type": By(f"{_HYBRID_OPTIONS}::test_invalid_fields_are_named"),
    "source hybrid unbounded_source.topic": By(
        f"{_HYBRID}::test_the_rows_of_the_table_are_followed_by_those_of_the_topic"
    ),
    "source hybrid unbounded_source.filter": By(f"{_HYBRID}::test_each_phase_has_its_own_filter"),
    "source hybrid unbounded_source.start_at": By(f"{_HANDOFF}::test_without_a_row_of_the_topic_start_at_decides"),
    **{
        f"source hybrid unbounded_source.{field}": By(
            f"{_HYBRID_OPTIONS}::test_every_field_of_the_topic_reaches_the_kafka_source"
        )
        for field in (
            "validate_writer_schema_ordering",
            "schema_id_overrides",
            "skip_schema_resolution",
            "skip_schema_resolution_for_reader_schema_ids",
        )
    },
    **{
        f"source hybrid unbounded_source.schema_id_overrides.{field}": By(
            f"{_EVOLUTION}::test_a_schema_id_is_replaced_by_another"
        )
        for field in ("from", "to")
    },
    "source hybrid offset_table": By(f"{_OFFSET_TABLE}::test_a_named_table_must_exist"),
    **{
        f"source hybrid offset_table.{field}": By(
            f"{_OFFSET_TABLE}::test_names_are_those_of_the_pipeline_file_whatever_they_contain"
        )
        for field in ("topic_name", "table_name", "topic_column", "partition_column", "offset_column")
    },
    "source kafka errors": By("tests/connectors/kafka/test_source_dead_letters.py::test_invalid_avro_messages"),
    "source kafka errors.to": By("tests/connectors/kafka/test_source_dead_letters.py::test_invalid_avro_messages"),
    "source kafka parallelism": By(f"{_OPTIONS}::test_parallelism_limits_the_tasks_that_read"),
    "source kafka validate_writer_schema_ordering": By(
        f"{_EVOLUTION}::test_a_newer_writer_keeps_the_old_columns_when_ordering_is_not_validated"
    ),
    "source kafka schema_id_overrides": By(f"{_EVOLUTION}::test_a_schema_id_is_replaced_by_another"),
    "source kafka schema_id_overrides.from": By(f"{_EVOLUTION}::test_a_schema_id_is_replaced_by_another"),
    "source kafka schema_id_overrides.to": By(f"{_EVOLUTION}::test_a_schema_id_is_replaced_by_another"),
    "source kafka skip_schema_resolution": By(
        f"{_EVOLUTION}::test_without_resolution_the_writers_columns_are_matched_by_name"
    ),
    "source kafka skip_schema_resolution_for_reader_schema_ids": By(
        f"{_EVOLUTION}::test_resolution_is_skipped_for_readers_that_are_listed"
    ),
    "source kafka topic": By(f"{_OPTIONS}::test_metadata_columns"),
    "source kafka starting_offsets": By(f"{_OPTIONS}::test_start_from_a_time"),
    "source kafka isolation_level": By(
        "tests/connectors/kafka/test_source_transactions.py::test_uncommitted_messages_are_rows_if_configured"
    ),
    "source kafka latency": By(
        "tests/connectors/kafka/test_realtime.py::test_an_interval_in_the_configuration_is_not_for_real_time_sources"
    ),
    "source kafka include_metadata": By(f"{_OPTIONS}::test_metadata_columns"),
    "source kafka filter": By(f"{_OPTIONS}::test_a_filter_keeps_the_rows_that_match"),
    "source kafka batch_size": By(f"{_OPTIONS}::test_small_batches"),
    "source kafka batch_flush_interval": By(
        "tests/connectors/kafka/test_batch_options.py::test_an_interval_makes_a_batch_wait_until_it_is_full"
    ),
    "source kafka data_format": By(f"{_OPTIONS}::test_json_values"),
    "source kafka schema": By(f"{_OPTIONS}::test_json_objects_become_rows_with_columns_in_alphabetical_order"),
    "transform dynamic_table backend_type": By(
        "tests/transforms/dynamic_table/test_spark_lookups.py::test_tables_of_both_kinds_in_one_statement"
    ),
    "transform dynamic_table backend_entity_name": By(f"{_TABLES}::test_names_come_from_the_options"),
    "transform dynamic_table sql": By(
        "tests/transforms/dynamic_table/test_order.py::test_a_value_is_found_by_later_rows_of_the_same_batch_and_not_by_earlier_ones"
    ),
    "transform dynamic_table schema": By(f"{_TABLES}::test_names_come_from_the_options"),
    "transform dynamic_table column": By(f"{_TABLES}::test_names_come_from_the_options"),
    "transform dynamic_table time_column": By(f"{_TABLES}::test_names_come_from_the_options"),
    "transform dynamic_table cache": By(f"{_TABLES}::test_a_table_without_a_time_column_is_not_cached"),
    "transform dynamic_table cache_refresh_debounce_ms": By(
        f"{_KNOBS}::test_cache_refresh_debounce_ms_of_a_table_counts_before_that_of_the_configuration"
    ),
    "transform dynamic_table wait_for_table": By(
        "tests/transforms/dynamic_table/test_waiting.py::test_without_waiting_rows_see_the_current_table"
    ),
    "transform handler errors": By(f"{_HANDLER}::test_rows_that_an_endpoint_rejects_go_to_the_dead_letter_sink"),
    "transform handler errors.to": By(f"{_HANDLER}::test_rows_that_an_endpoint_rejects_go_to_the_dead_letter_sink"),
    "transform handler batch_size": _BATCHES,
    "transform handler batch_flush_interval": _INTERVAL,
    "transform handler parallelism": _INSTANCES,
    "transform handler url": By(
        f"{_HANDLER}::test_a_request_is_a_json_post_with_the_headers_of_the_node_and_its_secret"
    ),
    "transform handler headers": By(
        f"{_HANDLER}::test_a_request_is_a_json_post_with_the_headers_of_the_node_and_its_secret"
    ),
    "transform handler secret_name": By(
        f"{_HANDLER}::test_a_request_is_a_json_post_with_the_headers_of_the_node_and_its_secret"
    ),
    "transform handler one_row_per_request": By(
        f"{_HANDLER}::test_rows_are_sent_and_responses_read_in_each_payload_format"
    ),
    "transform handler payload_version": By(
        f"{_HANDLER}::test_rows_are_sent_and_responses_read_in_each_payload_format"
    ),
    "transform handler schema_override": By(f"{_HANDLER}::test_schema_override_adds_removes_and_changes_columns"),
    "transform script errors": By(f"{_SCRIPT}::test_rows_that_a_script_fails_with_go_to_the_dead_letter_sink"),
    "transform script errors.to": By(f"{_SCRIPT}::test_rows_that_a_script_fails_with_go_to_the_dead_letter_sink"),
    "transform script batch_size": _BATCHES,
    "transform script batch_flush_interval": _INTERVAL,
    "transform script parallelism": _INSTANCES,
    "transform script language": By(f"{_SCRIPT}::test_production_typescript_with_a_schema_gives_seven_rows_for_sql"),
    "transform script script": By(f"{_SCRIPT}::test_a_script_without_a_function_is_found_without_spark"),
    "transform script schema": By(
        f"{_SCRIPT}::test_declared_columns_are_in_alphabetical_order_followed_by_the_row_kind"
    ),
    "transform sql parallelism": By(
        "tests/engine/dataflow/test_sql_flows.py::test_parallelism_of_a_sql_node_is_the_number_of_its_tasks"
    ),
    "transform sql sql": By(
        "tests/transforms/sql/test_transform.py::test_the_check_gives_the_output_columns_with_their_types"
    ),
    "sink kafka parallelism": By(f"{_KNOBS}::test_so_many_tasks_write_to_a_topic"),
    "sink kafka topic": By(f"{_KAFKA_SINK}::test_an_existing_topic_is_not_changed"),
    "sink kafka data_format": By(f"{_KAFKA_SINK}::test_header_and_value_carry_the_operation"),
    "sink kafka topic_partitions": By(
        f"{_KAFKA_SINK}::test_a_missing_topic_gets_as_many_partitions_as_topic_partitions_says"
    ),
    "sink clickhouse errors": By(
        f"{_CLICKHOUSE_PIPELINE}::test_rows_that_the_table_cannot_hold_go_to_the_dead_letter_sink"
    ),
    "sink clickhouse errors.to": By(
        f"{_CLICKHOUSE_PIPELINE}::test_rows_that_the_table_cannot_hold_go_to_the_dead_letter_sink"
    ),
    "sink clickhouse batch_size": By(f"{_CLICKHOUSE_PIPELINE}::test_rows_are_collected_into_the_configured_blocks"),
    "sink clickhouse batch_flush_interval": By(
        f"{_CLICKHOUSE_PIPELINE}::test_rows_are_collected_into_the_configured_blocks"
    ),
    "sink clickhouse parallelism": By(
        f"{_CLICKHOUSE_PIPELINE}::test_changes_have_the_same_result_with_any_number_of_instances"
    ),
    "sink clickhouse table": By(f"{_CLICKHOUSE_SINK}::test_a_table_of_another_database_can_be_named"),
    "sink clickhouse version_column_name": By(
        f"{_CLICKHOUSE_SINK}::test_the_highest_version_wins_in_a_batch_and_across_batches"
    ),
    "sink clickhouse append_only_mode": By(
        f"{_CLICKHOUSE_SINK}::test_a_new_table_that_rows_are_deleted_from_has_only_the_columns_of_the_input"
    ),
    "sink clickhouse deduplicate": By(
        f"{_CLICKHOUSE_SINK}::test_only_the_last_row_of_a_key_is_written_unless_all_are_wanted"
    ),
    "sink clickhouse schema_override": By(
        f"{_CLICKHOUSE_SINK}::test_an_override_determines_type_and_codec_of_a_new_column"
    ),
    "sink clickhouse compression": By(f"{_CLICKHOUSE_SINK}::test_requests_are_compressed_as_the_node_says"),
    "sink clickhouse compression_level": By(f"{_CLICKHOUSE_SINK}::test_requests_are_compressed_as_the_node_says"),
    "sink kafka batch_size": By(f"{_KNOBS}::test_producer_settings_of_the_kafka_sink"),
    "sink kafka batch_flush_interval": By(f"{_KNOBS}::test_producer_settings_of_the_kafka_sink"),
    "sink kafka message_max_bytes": By(
        "tests/connectors/kafka/test_sink_errors.py::test_a_large_message_is_written_when_it_is_allowed"
    ),
    "sink kafka compression": By(f"{_KNOBS}::test_producer_settings_of_the_kafka_sink"),
    "sink kafka deduplicate": By(f"{_KAFKA_SINK}::test_changes_of_a_key_keep_their_order"),
    "sink memory parallelism": _INSTANCES,
    "sink memory exclude_gs_op": By("tests/connectors/test_memory.py::test_exclude_gs_op_drops_the_operation"),
    "sink postgres errors": By(
        "tests/connectors/postgres/test_pipeline.py::test_rows_that_the_table_rejects_go_to_the_dead_letter_sink"
    ),
    "sink postgres errors.to": By(
        "tests/connectors/postgres/test_pipeline.py::test_rows_that_the_table_rejects_go_to_the_dead_letter_sink"
    ),
    "sink postgres batch_size": _BATCHES,
    "sink postgres batch_flush_interval": _INTERVAL,
    "sink postgres parallelism": _INSTANCES,
    "sink postgres table": By(
        "tests/connectors/postgres/test_table.py::test_schema_and_table_are_created_with_the_key_and_without_the_operation"
    ),
    "sink postgres schema": By(
        "tests/connectors/postgres/test_table.py::test_schema_and_table_are_created_with_the_key_and_without_the_operation"
    ),
    "sink postgres on_conflict": By(f"{_POSTGRES}::test_on_conflict_nothing_keeps_the_first_row_after_a_delete"),
    "sink postgres update_where": By(f"{_POSTGRES}::test_update_where_compares_new_with_stored"),
    "sink postgres deduplicate": By(f"{_POSTGRES}::test_triggers_see_every_change_of_a_key_or_the_last_one_of_a_batch"),
    "sink postgres evolve": By(
        "tests/connectors/postgres/test_table.py::test_add_columns_adds_what_is_missing_and_keeps_the_rest"
    ),
    "sink postgres_aggregate errors": By(
        f"{_AGGREGATES}::test_rows_that_cannot_be_aggregated_go_to_the_dead_letter_sink"
    ),
    "sink postgres_aggregate errors.to": By(
        f"{_AGGREGATES}::test_rows_that_cannot_be_aggregated_go_to_the_dead_letter_sink"
    ),
    "sink postgres_aggregate batch_size": _BATCHES,
    "sink postgres_aggregate batch_flush_interval": _INTERVAL,
    "sink postgres_aggregate parallelism": _INSTANCES,
    "sink postgres_aggregate schema": By(
        f"{_AGGREGATE}::test_the_database_objects_are_those_of_the_rust_implementation"
    ),
    "sink postgres_aggregate landing_table": By(
        f"{_AGGREGATE}::test_the_database_objects_are_those_of_the_rust_implementation"
    ),
    "sink postgres_aggregate agg_table": By(
        f"{_AGGREGATE}::test_the_database_objects_are_those_of_the_rust_implementation"
    ),
    "sink postgres_aggregate group_by": By(f"{_AGGREGATE}::test_types_can_be_chosen"),
    "sink postgres_aggregate group_by.from": By(f"{_AGGREGATE}::test_types_can_be_chosen"),
    "sink postgres_aggregate group_by.type": By(f"{_AGGREGATE}::test_types_can_be_chosen"),
    "sink postgres_aggregate aggregate": By(f"{_AGGREGATE}::test_all_functions_at_once"),
    "sink postgres_aggregate aggregate.from": By(f"{_AGGREGATE}::test_types_can_be_chosen"),
    "sink postgres_aggregate aggregate.type": By(f"{_AGGREGATE}::test_types_can_be_chosen"),
    "sink postgres_aggregate aggregate.fn": By(f"{_AGGREGATE}::test_all_functions_at_once"),
    "sink postgres_aggregate deduplicate": By(
        f"{_AGGREGATE}::test_the_landing_table_holds_the_first_row_of_a_batch_or_its_last"
    ),
    "sink print batch_size": _BATCHES,
    "sink print batch_flush_interval": _INTERVAL,
    "sink print parallelism": _INSTANCES,
    "sink print sample_every": By(f"{_PRINT}::test_sample_every_prints_every_nth_row_across_batches"),
    "sink print num_records_before_stop": By(f"{_PRINT}::test_it_counts_rows_not_lines"),
    "sink webhook batch_size": _BATCHES,
    "sink webhook batch_flush_interval": _INTERVAL,
    "sink webhook parallelism": _INSTANCES,
    "sink webhook url": By(f"{_WEBHOOK}::test_each_payload_format"),
    "sink webhook errors": By(f"{_WEBHOOK}::test_refused_rows_with_a_request_each_are_dead_letters"),
    "sink webhook errors.to": By(f"{_WEBHOOK}::test_refused_rows_with_a_request_each_are_dead_letters"),
    "sink webhook headers": By(f"{_KNOBS}::test_headers_and_secret_of_a_webhook"),
    "sink webhook secret_name": By(f"{_KNOBS}::test_headers_and_secret_of_a_webhook"),
    "sink webhook one_row_per_request": By(f"{_WEBHOOK}::test_each_payload_format"),
    "sink webhook payload_version": By(f"{_WEBHOOK}::test_each_payload_format"),
    "sink webhook skip_on_error": By(
        f"{_WEBHOOK}::test_with_skip_on_error_rows_with_an_error_response_are_skipped_and_counted"
    ),
}
#: fields that are accepted and warn when they are set
WARNS = {
    "sink blackhole batch_size": 5,
    "sink blackhole batch_flush_interval": "1s",
    "sink blackhole parallelism": 2,
}
