from streamling.cli import main

raise SystemExit(main())
