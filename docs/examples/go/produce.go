package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Place an order and publish it, both or neither. A crash comes before the op, so that the agent is
// asked.
func produce(ctx context.Context, database *pgxpool.Pool, item string, crash bool) error {
	// Java's partitioner puts all halves of a key into one queue (4, order).
	halves, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return err
	}
	defer halves.Close()
	ops, err := opClient()
	if err != nil {
		return err
	}
	defer ops.Close()
	if err := refuseUndeliverable(ctx, halves); err != nil {
		return err
	}
	stored, err := storeHalf(ctx, halves, item)
	if err != nil {
		return fmt.Errorf("the half was not acknowledged, and no order was placed: %w", err)
	}
	if err := place(ctx, database, stored.transactionID, item); err != nil {
		// The database may have committed all the same: a check finds out.
		remark := "the local transaction failed"
		_ = sendOp(ctx, ops, "UNKNOWN", stored, false, &remark)
		return err
	}
	if crash {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if err := sendOp(ctx, ops, "COMMIT_MESSAGE", stored, false, nil); err != nil {
		return err
	}
	fmt.Printf("%s at %d:%d\n", stored.transactionID, stored.queue, stored.offset)
	return nil
}

func refuseUndeliverable(ctx context.Context, client *kgo.Client) error {
	topics, err := kadm.NewClient(client).ListTopics(ctx, realTopic)
	if err != nil {
		return err
	}
	if err := topics[realTopic].Err; err != nil {
		return fmt.Errorf("topic %s: %w; make it first", realTopic, err)
	}
	return nil
}

func storeHalf(ctx context.Context, client *kgo.Client, item string) (half, error) {
	id := uuid.NewString()
	record := &kgo.Record{
		Topic: halfTopic,
		Key:   []byte("customer-7"),
		Value: []byte(item),
		Headers: []kgo.RecordHeader{
			{Key: "TRAN_MSG", Value: []byte("true")},
			{Key: "UNIQ_KEY", Value: []byte(id)},
			{Key: "PGROUP", Value: []byte(group)},
			{Key: "REAL_TOPIC", Value: []byte(realTopic)},
			{Key: "BORN_TIMESTAMP", Value: strconv.AppendInt(nil, time.Now().UnixMilli(), 10)},
		},
	}
	stored, err := client.ProduceSync(ctx, record).First()
	if err != nil {
		return half{}, err
	}
	return half{id, stored.Partition, stored.Offset}, nil
}

// The id and the order, both or neither. After a check's rollback the id is taken, and this fails.
func place(ctx context.Context, database *pgxpool.Pool, id, item string) error {
	return pgx.BeginFunc(ctx, database, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO transaction_log VALUES ($1, true)", id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1)", item)
		return err
	})
}
