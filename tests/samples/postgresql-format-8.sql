--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: sample; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA sample;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: documents; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.documents (
    collection text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    version bigint DEFAULT 1 NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    body text NOT NULL
);


--
-- Name: events; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.events (
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_us bigint NOT NULL,
    duration_us bigint,
    type text NOT NULL,
    agent text,
    step text,
    details text,
    items text,
    error text,
    xid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    digest text DEFAULT '-'::text
);


--
-- Name: free_events; Type: SEQUENCE; Schema: sample; Owner: -
--

CREATE SEQUENCE sample.free_events
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: messages; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.messages (
    id bigint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    priority bigint NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    owner text,
    dedup_key text COLLATE pg_catalog."C",
    body text NOT NULL,
    key text COLLATE pg_catalog."C",
    waiter text COLLATE pg_catalog."C",
    session_id text COLLATE pg_catalog."C",
    state text DEFAULT 'open'::text NOT NULL,
    answer text,
    expires_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    settled_at timestamp with time zone,
    token bigint DEFAULT 0 NOT NULL
);


--
-- Name: messages_id_seq; Type: SEQUENCE; Schema: sample; Owner: -
--

ALTER TABLE sample.messages ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sample.messages_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: migrations; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.migrations (
    number integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    works_with integer
);


--
-- Name: search_entries; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.search_entries (
    id bigint NOT NULL,
    space bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    model text COLLATE pg_catalog."C",
    dims integer,
    vector real[],
    body text NOT NULL,
    text text NOT NULL,
    terms text[] NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE ONLY sample.search_entries ALTER COLUMN vector SET STORAGE MAIN;


--
-- Name: search_entries_id_seq; Type: SEQUENCE; Schema: sample; Owner: -
--

ALTER TABLE sample.search_entries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sample.search_entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: search_spaces; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.search_spaces (
    num bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C"
);


--
-- Name: search_spaces_num_seq; Type: SEQUENCE; Schema: sample; Owner: -
--

ALTER TABLE sample.search_spaces ALTER COLUMN num ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sample.search_spaces_num_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: sessions; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.sessions (
    num bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL,
    status text NOT NULL,
    outcome text,
    user_id text,
    meta text NOT NULL,
    cursor text DEFAULT '{}'::text NOT NULL,
    variables text DEFAULT '{}'::text NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    owner text,
    lease_until timestamp with time zone,
    token bigint DEFAULT 0 NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    wakes bigint DEFAULT 0 NOT NULL,
    priority smallint DEFAULT 2 NOT NULL,
    lapses_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
)
WITH (fillfactor='70');


--
-- Name: sessions_num_seq; Type: SEQUENCE; Schema: sample; Owner: -
--

ALTER TABLE sample.sessions ALTER COLUMN num ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sample.sessions_num_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: steps; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.steps (
    session bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    result text NOT NULL
);


--
-- Name: writes; Type: TABLE; Schema: sample; Owner: -
--

CREATE TABLE sample.writes (
    token bigint NOT NULL,
    written_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    result text
);


--
-- Data for Name: documents; Type: TABLE DATA; Schema: sample; Owner: -
--



--
-- Data for Name: events; Type: TABLE DATA; Schema: sample; Owner: -
--

INSERT INTO sample.events VALUES (1, 1, 1794983271870926, NULL, 'message', 'triage', NULL, NULL, '[{"role":"user","content":"我的包裹在哪里？"}]', NULL, 755, '1:f971a2ffcea8e1b870367e23b1c4639ffc0bf952657e23fae39d1afc99d582b3');
INSERT INTO sample.events VALUES (1, 2, 1794983271916806, NULL, 'agent_start', 'triage', NULL, NULL, NULL, NULL, 757, NULL);
INSERT INTO sample.events VALUES (1, 3, 1794983271919503, 2665, 'llm_call', 'triage', '1.1.m', '{"model":"scripted","usage":{"requests":1}}', '[{"type":"function_call","name":"transfer_to_orders","arguments":"{\"reason\":\"包裹\"}","call_id":"call_1_1_m_1"}]', NULL, 757, NULL);
INSERT INTO sample.events VALUES (1, 4, 1794983271919668, NULL, 'handoff', 'triage', '1.1.h', '{"id":"finished.h1","from":"triage","to":"orders","status":"transferring","moves":["initiated","validating","transferring"],"reason":"包裹","hash":"MWv_3PQPc0mlPnonZOYCZiSH4UWWR_jnj3fNjwnnfm4"}', '[{"type":"function_call_output","call_id":"call_1_1_m_1","output":"{\"assistant\":\"orders\"}"}]', NULL, 757, '3:f827fbaadf3238ec3149a5a80f02058e0591f858fc10b3e501c8e9541291d2d1');
INSERT INTO sample.events VALUES (1, 5, 1794983271954518, NULL, 'agent_start', 'orders', NULL, NULL, NULL, NULL, 758, NULL);
INSERT INTO sample.events VALUES (1, 6, 1794983271958270, 3718, 'llm_call', 'orders', '1.2.m', '{"model":"scripted","usage":{"requests":1}}', '[{"type":"function_call","name":"lookup","arguments":"{\"order_id\":\"A-42\"}","call_id":"call_1_2_m_1"}]', NULL, 758, NULL);
INSERT INTO sample.events VALUES (1, 7, 1794983271958301, NULL, 'handoff', 'orders', NULL, '{"id":"finished.h1","from":"triage","to":"orders","status":"completed","moves":["completed"],"hash":"Vneq7ALEZHMSP4HYjVV2FgfuXSXqOfrdesHDqVPp2F4"}', NULL, NULL, 758, '3:8c108947e7cd1fa7ebfb9baaa0948f0d7783df46e3dba62823148739fcfa5a4f');
INSERT INTO sample.events VALUES (1, 8, 1794983271964891, 255, 'tool_call', 'orders', '1.2.t0', '{"tool":"lookup"}', '[{"type":"function_call_output","call_id":"call_1_2_m_1","output":"A-42 已发货"}]', NULL, 759, '1:422c41e10d54b72b988b185b568aaaef51b3b1e1d6bc9821171e3c62dadf1cc7');
INSERT INTO sample.events VALUES (1, 9, 1794983271969376, 176, 'llm_call', 'orders', '1.3.m', '{"model":"scripted","usage":{"requests":1}}', '[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"A-42 已发货 📦"}]}]', NULL, 761, NULL);
INSERT INTO sample.events VALUES (1, 10, 1794983271969395, NULL, 'agent_complete', 'orders', NULL, NULL, NULL, NULL, 761, '2:d395e59845411290652f85d95257d477f58ca63b25abbc4d91bd397697cbc408');
INSERT INTO sample.events VALUES (2, 1, 1794983271988677, NULL, 'message', 'triage', NULL, NULL, '[{"role":"user","content":"and B-1?"}]', NULL, 763, '1:d3e728d0b9b5731fe40e84eb9571a6e0e6de7ed8c201b2a6f1a23dc0d7fd2e0e');
INSERT INTO sample.events VALUES (2, 2, 1794983271994596, NULL, 'agent_start', 'triage', NULL, NULL, NULL, NULL, 764, NULL);
INSERT INTO sample.events VALUES (2, 3, 1794983271994834, 220, 'llm_call', 'triage', '1.1.m', '{"model":"scripted","usage":{"requests":1}}', '[{"type":"function_call","name":"transfer_to_orders","arguments":"{}","call_id":"call_1_1_m_1"}]', NULL, 764, NULL);
INSERT INTO sample.events VALUES (2, 4, 1794983271994956, NULL, 'handoff', 'triage', '1.1.h', '{"id":"unfinished.h1","from":"triage","to":"orders","status":"transferring","moves":["initiated","validating","transferring"],"hash":"PXhL0HiK9nT8NAWAxyjcxZfnsIbzAPlAo6JBmurIzXo"}', '[{"type":"function_call_output","call_id":"call_1_1_m_1","output":"{\"assistant\":\"orders\"}"}]', NULL, 764, '3:241ecd16653398f4919e8697718ed2b9651f9cead13c1ad575d99dd2a4f15565');
INSERT INTO sample.events VALUES (2, 5, 1794983272000449, NULL, 'agent_start', 'orders', NULL, NULL, NULL, NULL, 766, NULL);
INSERT INTO sample.events VALUES (2, 6, 1794983272000672, 205, 'llm_call', 'orders', '1.2.m', '{"model":"scripted","usage":{"requests":1}}', '[{"type":"function_call","name":"lookup","arguments":"{\"order_id\":\"B-1\"}","call_id":"call_1_2_m_1"}]', NULL, 766, NULL);
INSERT INTO sample.events VALUES (2, 7, 1794983272000690, NULL, 'handoff', 'orders', NULL, '{"id":"unfinished.h1","from":"triage","to":"orders","status":"completed","moves":["completed"],"hash":"jS54abhJUUzhCaPrepqxAVoEDp6g0_5s71EmLv_gQ-A"}', NULL, NULL, 766, '3:8e6fa01943f4ed51c258d67c310cadee4c29b0817a517a0f9c63ca0006e21eb0');
INSERT INTO sample.events VALUES (2, 8, 1794983272001965, 51, 'tool_call', 'orders', '1.2.t0', '{"tool":"lookup"}', '[{"type":"function_call_output","call_id":"call_1_2_m_1","output":"B-1 已发货"}]', NULL, 767, '1:5e346d39ec43f5e404563fe1c02705a73661982d44922035d3ced5e5d108c386');
INSERT INTO sample.events VALUES (2, 9, 1794983272008349, NULL, 'agent_complete', 'orders', NULL, '{"outcome":"out_of_budget","limit":"turns","allowed":2,"used":2}', NULL, NULL, 768, '1:0ef140d108712af57f771d5202421379c7e24ff87baa8d2dcef583dea45d7571');


--
-- Data for Name: messages; Type: TABLE DATA; Schema: sample; Owner: -
--



--
-- Data for Name: migrations; Type: TABLE DATA; Schema: sample; Owner: -
--

INSERT INTO sample.migrations VALUES (8, '0008_baseline', 'e3313267b8e0224f6d033dbbd93b22b8196475d0f9d20a15b7d9aa1a62894454', '2026-11-18 06:27:51.825051+00', NULL);


--
-- Data for Name: search_entries; Type: TABLE DATA; Schema: sample; Owner: -
--

INSERT INTO sample.search_entries OVERRIDING SYSTEM VALUE VALUES (1, 1, 'city', '2026-11-18 06:27:52.044421+00', 'm', 2, '{0.6,0.8}', 'null', '서울', '{1·서,1·울,1·서울}');
INSERT INTO sample.search_entries OVERRIDING SYSTEM VALUE VALUES (2, 1, 'drink', '2026-11-18 06:27:52.044818+00', NULL, NULL, NULL, '{"n":1}', 'User u1 likes green tea 喜欢绿茶 🍵', '{1·user,1·u1,1·likes,1·green,1·tea,1·喜,1·欢,1·喜欢,1·绿,1·欢绿,1·茶,1·绿茶,1·🍵}');
INSERT INTO sample.search_entries OVERRIDING SYSTEM VALUE VALUES (3, 2, 'drink', '2026-11-18 06:27:52.048738+00', 'm', 2, '{1,0}', 'null', 'coffee', '{2·coffee}');


--
-- Data for Name: search_spaces; Type: TABLE DATA; Schema: sample; Owner: -
--

INSERT INTO sample.search_spaces OVERRIDING SYSTEM VALUE VALUES (1, 'u1');
INSERT INTO sample.search_spaces OVERRIDING SYSTEM VALUE VALUES (2, 'u2');


--
-- Data for Name: sessions; Type: TABLE DATA; Schema: sample; Owner: -
--

INSERT INTO sample.sessions OVERRIDING SYSTEM VALUE VALUES (1, 'finished', 'orders', 'idle', 'done', 'u1', '{"title":"茶"}', '{"r":1,"t":3,"p":"end","f":1,"s":1,"c":9,"ch":["user","triage","orders"],"rc":{"from":"triage","reason":"包裹"},"h":1,"si":0.059,"w":2,"sp":0.109,"u":{"requests":3},"hd":"Vneq7ALEZHMSP4HYjVV2FgfuXSXqOfrdesHDqVPp2F4","hn":2}', '{}', 10, 1, NULL, NULL, 1338278079359963269, '2026-11-18 06:27:51.912585+00', '2026-11-18 06:27:51.85371+00', '2026-11-18 06:27:51.970067+00', 0, 2, '-infinity');
INSERT INTO sample.sessions OVERRIDING SYSTEM VALUE VALUES (2, 'unfinished', 'orders', 'idle', 'out_of_budget', NULL, '{}', '{"r":1,"t":2,"p":"think","f":1,"s":1,"c":6,"ch":["user","triage","orders"],"rc":{"from":"triage"},"h":1,"si":0.006,"w":1,"li":{"turns":2},"sp":0.02,"u":{"requests":2},"hd":"jS54abhJUUzhCaPrepqxAVoEDp6g0_5s71EmLv_gQ-A","hn":2}', '{}', 9, 1, NULL, NULL, 2091621790947916699, '2026-11-18 06:27:51.993758+00', '2026-11-18 06:27:51.979788+00', '2026-11-18 06:27:52.012242+00', 0, 2, '-infinity');


--
-- Data for Name: steps; Type: TABLE DATA; Schema: sample; Owner: -
--



--
-- Data for Name: writes; Type: TABLE DATA; Schema: sample; Owner: -
--



--
-- Name: free_events; Type: SEQUENCE SET; Schema: sample; Owner: -
--

SELECT pg_catalog.setval('sample.free_events', 1, false);


--
-- Name: messages_id_seq; Type: SEQUENCE SET; Schema: sample; Owner: -
--

SELECT pg_catalog.setval('sample.messages_id_seq', 1, false);


--
-- Name: search_entries_id_seq; Type: SEQUENCE SET; Schema: sample; Owner: -
--

SELECT pg_catalog.setval('sample.search_entries_id_seq', 3, true);


--
-- Name: search_spaces_num_seq; Type: SEQUENCE SET; Schema: sample; Owner: -
--

SELECT pg_catalog.setval('sample.search_spaces_num_seq', 2, true);


--
-- Name: sessions_num_seq; Type: SEQUENCE SET; Schema: sample; Owner: -
--

SELECT pg_catalog.setval('sample.sessions_num_seq', 2, true);


--
-- Name: documents documents_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (collection, key);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (session, seq);


--
-- Name: messages messages_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (id);


--
-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);


--
-- Name: search_entries search_entries_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.search_entries
    ADD CONSTRAINT search_entries_pkey PRIMARY KEY (id);


--
-- Name: search_spaces search_spaces_name_key; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.search_spaces
    ADD CONSTRAINT search_spaces_name_key UNIQUE (name);


--
-- Name: search_spaces search_spaces_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.search_spaces
    ADD CONSTRAINT search_spaces_pkey PRIMARY KEY (num);


--
-- Name: sessions sessions_id_key; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.sessions
    ADD CONSTRAINT sessions_id_key UNIQUE (id);


--
-- Name: sessions sessions_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (num);


--
-- Name: steps steps_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.steps
    ADD CONSTRAINT steps_pkey PRIMARY KEY (session, key);


--
-- Name: writes writes_pkey; Type: CONSTRAINT; Schema: sample; Owner: -
--

ALTER TABLE ONLY sample.writes
    ADD CONSTRAINT writes_pkey PRIMARY KEY (token);


--
-- Name: events_audited; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX events_audited ON sample.events USING btree (at_us, session, seq, type) WHERE (type = ANY (ARRAY['guardrail'::text, 'handoff'::text, 'inbox'::text, 'route'::text, 'tool_confirmation'::text]));


--
-- Name: events_feed; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX events_feed ON sample.events USING btree (xid, session, seq);


--
-- Name: messages_dead; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX messages_dead ON sample.messages USING btree (queue, id) WHERE (state = 'dead'::text);


--
-- Name: messages_dedup; Type: INDEX; Schema: sample; Owner: -
--

CREATE UNIQUE INDEX messages_dedup ON sample.messages USING btree (queue, dedup_key) WHERE (dedup_key IS NOT NULL);


--
-- Name: messages_expiry; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX messages_expiry ON sample.messages USING btree (queue, expires_at) WHERE ((state = 'open'::text) AND (expires_at IS NOT NULL));


--
-- Name: messages_key; Type: INDEX; Schema: sample; Owner: -
--

CREATE UNIQUE INDEX messages_key ON sample.messages USING btree (key) WHERE (key IS NOT NULL);


--
-- Name: messages_next; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX messages_next ON sample.messages USING btree (queue, priority DESC, id) WHERE (state = 'open'::text);


--
-- Name: messages_oldest; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX messages_oldest ON sample.messages USING btree (queue, id) WHERE (state = 'open'::text);


--
-- Name: messages_session; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX messages_session ON sample.messages USING btree (session_id) WHERE (session_id IS NOT NULL);


--
-- Name: messages_settled; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX messages_settled ON sample.messages USING btree (settled_at, id) WHERE (settled_at IS NOT NULL);


--
-- Name: messages_waiter; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX messages_waiter ON sample.messages USING btree (waiter) WHERE ((state = 'open'::text) AND (waiter IS NOT NULL));


--
-- Name: search_entries_by_key; Type: INDEX; Schema: sample; Owner: -
--

CREATE UNIQUE INDEX search_entries_by_key ON sample.search_entries USING btree (space, key);


--
-- Name: search_entries_by_model; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX search_entries_by_model ON sample.search_entries USING btree (space, model, dims) WHERE (model IS NOT NULL);


--
-- Name: search_entries_terms; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX search_entries_terms ON sample.search_entries USING gin (terms);


--
-- Name: sessions_by_agent; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX sessions_by_agent ON sample.sessions USING btree (agent, status, num);


--
-- Name: sessions_by_outcome; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX sessions_by_outcome ON sample.sessions USING btree (outcome, num) WHERE (outcome IS NOT NULL);


--
-- Name: sessions_by_status; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX sessions_by_status ON sample.sessions USING btree (status, num);


--
-- Name: sessions_free; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX sessions_free ON sample.sessions USING btree (ready_at, num) WHERE ((status = 'ready'::text) AND (owner IS NULL));


--
-- Name: sessions_free_of_agent; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX sessions_free_of_agent ON sample.sessions USING btree (agent, ready_at) WHERE ((status = 'ready'::text) AND (owner IS NULL));


--
-- Name: sessions_held; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX sessions_held ON sample.sessions USING btree (lapses_at) WHERE ((status = 'ready'::text) AND (owner IS NOT NULL));


--
-- Name: sessions_ready; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX sessions_ready ON sample.sessions USING btree (ready_at, num) WHERE (status = 'ready'::text);


--
-- Name: sessions_user; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX sessions_user ON sample.sessions USING btree (user_id, num) WHERE (user_id IS NOT NULL);


--
-- Name: writes_age; Type: INDEX; Schema: sample; Owner: -
--

CREATE INDEX writes_age ON sample.writes USING btree (written_at);


--
-- PostgreSQL database dump complete
--


