"""The algorithms: one file each, and one line here."""

from lobsdice.algorithms.base import Algorithm as Algorithm
from lobsdice.algorithms.registry import ALGORITHMS as ALGORITHMS, register as register

# In the order in which `lobsdice algorithms` lists them.
# isort: off
from lobsdice.algorithms.lobsdice import LobsDICE as LobsDICE
from lobsdice.algorithms.lobsdice_mu import LobsDICEMu as LobsDICEMu
from lobsdice.algorithms.bc import BC as BC
from lobsdice.algorithms.bco import BCO as BCO
from lobsdice.algorithms.demodice import DemoDICE as DemoDICE
from lobsdice.algorithms.demodicefo import DemoDICEfO as DemoDICEfO
from lobsdice.algorithms.smodice import SMODICE as SMODICE
from lobsdice.algorithms.opolo import OPOLO as OPOLO
from lobsdice.algorithms.iqlearn import IQLearn as IQLearn
from lobsdice.algorithms.rce import RCE as RCE
from lobsdice.algorithms.recoil import ReCOIL as ReCOIL
from lobsdice.algorithms.recoilfo import ReCOILfO as ReCOILfO
from lobsdice.algorithms.iql import IQL as IQL
from lobsdice.algorithms.seabo import SEABO as SEABO
from lobsdice.algorithms.otr import OTR as OTR
from lobsdice.algorithms.tailo import TAILO as TAILO
from lobsdice.algorithms.nearest_trajectory import NearestTrajectory as NearestTrajectory
from lobsdice.algorithms.dilo import DILO as DILO
from lobsdice.algorithms.optidice import OptiDICE as OptiDICE
