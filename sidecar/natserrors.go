package main

import (
	"errors"
	"fmt"

	"assay/queue"
)

// natsError puts the flag in the place of the setting that an error of package queue names.
func natsError(err error) error {
	var setting *queue.SettingError
	if !errors.As(err, &setting) {
		return err
	}
	flag, ok := map[string]string{
		"URL": "--nats-url", "NKey": "--nats-nkey", "Cert": "--nats-cert and --nats-key",
		"Listen": "--nats-listen", "DataDir": "--data-dir", "MaxPayload": "--nats-max-payload",
	}[setting.Field]
	if !ok {
		return err
	}
	return fmt.Errorf("%s: %w", flag, setting.Err)
}
