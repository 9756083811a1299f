-- Made after the rows are loaded. Titles and names have no index: a search for part of one scans.
ALTER TABLE order_line ADD PRIMARY KEY (ol_o_id, ol_id);
CREATE INDEX item_subject ON item (i_subject);
CREATE INDEX item_author ON item (i_a_id);
