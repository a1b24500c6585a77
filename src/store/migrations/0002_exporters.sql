-- Exporters learnt from Prometheus' targets, to be read directly while it is away.
CREATE TABLE exporters (
    prometheus TEXT NOT NULL,
    engine     TEXT NOT NULL,
    url        TEXT NOT NULL,
    target     TEXT NOT NULL,
    PRIMARY KEY (prometheus, engine, url)
);
