package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Answer the checks of a group from its database, until SIGTERM.
func answer(ctx context.Context, database *pgxpool.Pool) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	ops, err := opClient()
	if err != nil {
		return err
	}
	defer ops.Close()
	queues, err := queuesOf(ctx, ops)
	if err != nil {
		return err
	}
	checks, err := kgo.NewClient(
		kgo.SeedBrokers(servers...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(checkTopic),
		// From the beginning: the first check may be older than this group's first member (4).
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(),
		// A former member may have read checks and not answered them: the resolver asks again (4, 6).
		kgo.OnPartitionsAssigned(func(ctx context.Context, _ *kgo.Client, _ map[string][]int32) {
			if err := announce(ctx, ops, queues); err != nil {
				log.Print(err)
			}
		}),
		// The resolver makes the topic with the group's first check: look for it every 2 s.
		kgo.MetadataMinAge(time.Second),
		kgo.MetadataMaxAge(2*time.Second),
	)
	if err != nil {
		return err
	}
	defer checks.Close()
	fmt.Printf("answers checks of %s\n", group)
	for {
		fetched := checks.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, check := range fetched.Records() {
			if err := answerOne(ctx, database, ops, check); err != nil {
				return err
			}
			// The op is acknowledged: only now the check is done.
			if err := checks.CommitRecords(ctx, check); err != nil {
				return err
			}
		}
	}
}

func answerOne(ctx context.Context, database *pgxpool.Pool, ops *kgo.Client, check *kgo.Record) error {
	of, err := halfOf(check)
	if err != nil {
		return err
	}
	committed, err := hasCommitted(ctx, database, of.transactionID)
	if err != nil {
		// No answer: it uses up none of the checks that a half has.
		remark := "the agent's database failed"
		return sendOp(ctx, ops, "UNKNOWN", of, false, &remark)
	}
	if committed {
		return sendOp(ctx, ops, "COMMIT_MESSAGE", of, true, nil)
	}
	return sendOp(ctx, ops, "ROLLBACK_MESSAGE", of, true, nil)
}

// Without a trace of the id, write it down as rolled back: it can't commit any more.
func hasCommitted(ctx context.Context, database *pgxpool.Pool, id string) (bool, error) {
	_, err := database.Exec(ctx, "INSERT INTO transaction_log VALUES ($1, false) ON CONFLICT DO NOTHING", id)
	if err != nil {
		return false, err
	}
	var committed bool
	row := database.QueryRow(ctx, "SELECT committed FROM transaction_log WHERE transaction_id = $1", id)
	err = row.Scan(&committed)
	return committed, err
}

// The half's id and its transaction's. The last HALF_OFFSET is the resolver's.
func halfOf(check *kgo.Record) (half, error) {
	var of half
	for _, header := range check.Headers {
		switch header.Key {
		case "UNIQ_KEY":
			of.transactionID = string(header.Value)
		case "HALF_OFFSET":
			queue, offset, _ := strings.Cut(string(header.Value), ":")
			number, err := strconv.ParseInt(queue, 10, 32)
			if err != nil {
				return of, err
			}
			of.queue = int32(number)
			if of.offset, err = strconv.ParseInt(offset, 10, 64); err != nil {
				return of, err
			}
		}
	}
	if of.transactionID == "" {
		return of, errors.New("a check has no UNIQ_KEY")
	}
	return of, nil
}
