-- Volumes with pages that could not be read.
create index volume_results_errors on volume_results (task_id) where nb_errors > 0;
