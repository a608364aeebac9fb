// Package handlers tests when the functions of the application are called, and what becomes of their answers.
package handlers

import (
	"testing"

	"github.com/gyrohq/gyro/internal/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
