CREATE SETTINGS PROFILE IF NOT EXISTS sprag_analysts SETTINGS
    readonly = 1,
    max_memory_usage = 500000000 MAX 500000000,
    max_threads = 2 MAX 2,
    max_execution_time = 60 MAX 60,
    max_rows_to_read = 2000000000 MAX 2000000000,
    max_result_rows = 5000000 MAX 5000000,
    max_result_bytes = 134217728 MAX 134217728,
    max_temporary_data_on_disk_size_for_query = 2000000000 MAX 2000000000,
    max_concurrent_queries_for_user = 2 CONST,
    max_memory_usage_for_user = 1000000000 CONST,
    allow_introspection_functions = 0 CONST,
    priority = 10 CONST;
CREATE ROLE IF NOT EXISTS sprag_reader;
GRANT SHOW, SELECT ON sprag.* TO sprag_reader;
CREATE QUOTA IF NOT EXISTS sprag_analysts FOR INTERVAL 1 hour MAX queries = 20000, result_bytes = 20000000000 TO sprag_reader;
CREATE USER IF NOT EXISTS analyst IDENTIFIED BY 'choose one' DEFAULT ROLE sprag_reader SETTINGS PROFILE 'sprag_analysts';
GRANT sprag_reader TO analyst;
