-- Columns that nothing reads.
alter table rollup_progress drop column latency_from, drop column latency_to;
alter table on_demand_runs drop column replied_at;
alter table mcp_elicitations drop column created_at;
alter table sign_in_flows drop column created_at;
alter table subscriber_deliveries drop column delivered_at;
alter table org_hours_new alter column at set not null;
alter table deleted_targets alter column regions set not null;
drop index subscribers_unsealed;
