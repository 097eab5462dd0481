-- For the examples in Node.js and Go. The primary key is the place where a local transaction and a check meet.
CREATE TABLE transaction_log (
    transaction_id VARCHAR(128) COLLATE "C" PRIMARY KEY,
    committed BOOLEAN NOT NULL
);
CREATE TABLE orders (item VARCHAR(80) NOT NULL);
