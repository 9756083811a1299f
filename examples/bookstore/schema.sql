-- The bookstore's tables: those of TPC-W that its browsing pages read, with their names.
CREATE TABLE author (
    a_id integer PRIMARY KEY,
    a_fname text NOT NULL,
    a_lname text NOT NULL,
    a_bio text NOT NULL
);
CREATE TABLE item (
    i_id integer PRIMARY KEY,
    i_title text NOT NULL,
    i_a_id integer NOT NULL,
    i_pub_date date NOT NULL,
    i_publisher text NOT NULL,
    i_subject text NOT NULL,
    i_desc text NOT NULL,
    i_related integer[] NOT NULL,
    i_srp numeric(8, 2) NOT NULL,
    i_cost numeric(8, 2) NOT NULL,
    i_stock integer NOT NULL,
    i_isbn text NOT NULL,
    i_page integer NOT NULL,
    i_backing text NOT NULL
);
CREATE TABLE customer (
    c_id integer PRIMARY KEY,
    c_uname text NOT NULL,
    c_fname text NOT NULL,
    c_lname text NOT NULL,
    c_email text NOT NULL,
    c_since date NOT NULL,
    c_discount numeric(3, 2) NOT NULL,
    c_data text NOT NULL
);
CREATE TABLE orders (
    o_id integer PRIMARY KEY,
    o_c_id integer NOT NULL,
    o_date timestamp NOT NULL
);
CREATE TABLE order_line (
    ol_o_id integer NOT NULL,
    ol_id integer NOT NULL,
    ol_i_id integer NOT NULL,
    ol_qty integer NOT NULL
);
