-- What became of a question: a no, a closed form and a client that could not show the form are told apart.
alter table mcp_elicitations drop constraint mcp_elicitations_answer_check;
alter table mcp_elicitations add constraint mcp_elicitations_answer_check
  check (answer in ('accepted', 'declined', 'dismissed', 'failed', 'withdrawn'));
